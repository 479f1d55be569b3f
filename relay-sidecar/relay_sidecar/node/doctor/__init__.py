"""What would fail at a reboot now, with the link cut: nobody can test a factory's power cut.

facts              what is known of a node; `unknown`: what could not be looked at
node_reader        looks at its files, the relay and the API
machine            what its disk has: `unit_files`, `service` (does a unit start), `kubelet`,
                   `runtime`
node_answers       what the API says of it, by way of the relay
pods               what pods need in order to start again
finding            one thing that fails or cannot be seen, and its remedy; `report`: how it is told
findings           pure: what fails of the node as a whole; `machine_findings`: of its disk
network_findings   pure: of the network of pods, names, and the components that make them
pod_findings       pure: of its pods; `volume_findings`: of their volumes
"""
