"""What the disk of a node has, as its reboot would find it; knows no API and no relay.

machine     all of it
unit_files  units of systemd with their drop-ins, as the disk has them
service     whether a unit starts, and with which command
kubelet     kubelet's command and configuration
runtime     containerd: its configuration, networks, images
"""
