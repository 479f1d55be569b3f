"""What would fail at a reboot now, with the link cut: nobody can test a factory's power cut.

facts         what is known of a node
node_reader   looks at its files, the relay and the API
pods          what pods need in order to start again
finding       one thing that fails, and its remedy
findings      pure: what fails of the node as a whole, and its remedy
pod_findings  pure: what fails of its pods
"""
