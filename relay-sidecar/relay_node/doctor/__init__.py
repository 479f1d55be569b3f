"""What would fail at a reboot now, with the link cut: a factory's power cut cannot be tried first.

facts              what is known of a node; `unknown`: what could not be looked at
node_reader        looks at its files, the relay and the API
machine/           what its disk has: units, programs, kubelet, the container runtime
node_answers       what the API says of it, by way of the relay
pods               what pods need in order to start again
finding            one thing that fails or cannot be seen, and its remedy; `report` prints it
findings           pure: what fails of the node as a whole; `machine_findings`: of its disk
network_findings   pure: of the network of pods, names, and the components that make them
pod_findings       pure: of its pods; `volume_findings`: of their volumes
"""
