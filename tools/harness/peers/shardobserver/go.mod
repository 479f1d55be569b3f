module shardobserver

go 1.26.0
