"""Where the main asks this process, as the proof that its predecessor in this pod is dead (P11).

Shell. A fixed TCP port is proof once it is bound: without SO_REUSEPORT no two processes of a pod's
network have it. A unix socket can be replaced, so a lock on a file beside it is the proof.
"""

import base64
import fcntl
import json
import os
from pathlib import Path

from edge_sidecars.runtime.clock import boot_id
from elector_sidecar.config.config import Config
from elector_sidecar.core.resume import AnswersAt


def answers_at(config: Config) -> AnswersAt | None:
    """None where no process of this pod can go on for another one."""
    listen, boot = config.listen, boot_id()
    # What a wrapped program of the predecessor does is not known here.
    if listen is None or config.program or not boot:
        return None
    uid = config.pod_uid or _uid_of_token(config.service_account_dir / "token")
    if not uid or not (_locked(f"{listen.path}.lock") if listen.path else listen.port):
        return None
    return AnswersAt(uid, str(listen), boot)


def _uid_of_token(path: Path) -> str:
    """That of the pod to which kubelet bound it; "" where it says none."""
    try:
        payload = path.read_text(encoding="ascii").split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        uid = claims["kubernetes.io"]["pod"]["uid"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return uid if isinstance(uid, str) else ""


def _locked(path: str) -> bool:
    """Whether this process has it now; it does for its life. False where another one has it, or no
    file can be made."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    return True
