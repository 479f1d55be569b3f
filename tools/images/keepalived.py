"""The image of keepalived with the configuration of manifests/keepalived.

On the Dockerfile's own base where that can be had, else on Debian's packages, fetched once.
"""

import docker

from tools.images import OWN_IMAGES
from tools.images.base import CLEAN, ROOT, SUITE, debian_image, pulled

KEEPALIVED = "keepalived"
SHIPPED = ROOT / "manifests" / "keepalived"
DOCKERFILE = SHIPPED / "container" / "Dockerfile"
# What it starts and asks with. usr-is-merged: the other package that keepalived takes brings Perl.
PACKAGES = ("keepalived", "curl", "dash", "coreutils", "sed", "base-passwd", "usr-is-merged")
# Unpacked, not configured: the accounts, of which keepalived's scripts need root's, are copied.
HOOKS = (
    'for it in passwd group; do cp "$1"/usr/share/base-passwd/$it.master "$1"/etc/$it; done',
    CLEAN,
)


def keepalived_image(client: docker.DockerClient, *, tag: str) -> str:
    """Its name; of this checkout, built now. Raises NoBase, docker.errors.BuildError."""
    base = pulled(client, DOCKERFILE)
    if not base:
        made = f"{OWN_IMAGES}/keepalived-base:{SUITE}"
        base = debian_image(client, made, packages=PACKAGES, variant="extract", hooks=HOOKS)
    name = f"{OWN_IMAGES}/keepalived:{tag}"
    client.images.build(
        path=str(SHIPPED),
        dockerfile="container/Dockerfile",
        tag=name,
        buildargs={"BASE_IMAGE": base},
        # Whoever's packages are missing in the base gets them; our own engine has no other network.
        network_mode="host",
        rm=True,
        forcerm=True,
    )
    return name
