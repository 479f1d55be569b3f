module edge-sidecars/workload

go 1.26.0
