"""One container of a pod, as tests handle processes: what is done to it, and its log.

It is made when it is started for the first time; from then on it is that container, with its data,
as in kubelet's hands.
"""

from collections.abc import Callable, Iterable, Mapping

from docker.models.containers import Container

from tools.harness.containers.manifest import ContainerSpec
from tools.harness.containers.pod import Pod

# By container: on top of what the manifest says; None: without it.
Variables = Mapping[str, Mapping[str, str | None]]
# What is still of interest of a log.
TAIL_LINES = 200


class Program:
    """`make`: a container that runs."""

    def __init__(self, name: str, make: Callable[[], Container]) -> None:
        self.name = name
        self._make = make
        self._container: Container | None = None

    def start(self) -> None:
        """Where it does not run."""
        if self._container is None:
            self._container = self._make()
        elif not self.is_running:
            self._container.start()

    @property
    def is_running(self) -> bool:
        """Frozen or not."""
        if self._container is None:
            return False
        self._container.reload()
        return self._container.status == "running"

    @property
    def has_ended(self) -> bool:
        """Though it was started, and whatever ended it."""
        return self._container is not None and not self.is_running

    def freeze(self) -> None:
        """By a signal: the engine's own pause fails now and then where processors are busy."""
        self._there().kill("SIGSTOP")

    def thaw(self) -> None:
        self._there().kill("SIGCONT")

    def kill(self) -> None:
        """SIGKILL, and gone when it returns."""
        self._there().kill()
        self._there().wait()

    def terminate(self, timeout: int = 60) -> int:
        """SIGTERM; its exit status."""
        self._there().stop(timeout=timeout)
        return int(self._there().wait()["StatusCode"])

    def log_text(self) -> str:
        if self._container is None:
            return ""
        return self._container.logs(tail=TAIL_LINES).decode(errors="replace")

    def _there(self) -> Container:
        assert self._container is not None, f"{self.name} was not started"
        return self._container


def programs(
    pod: Pod,
    specs: Iterable[ContainerSpec],
    images: Mapping[str, str],
    *,
    variables: Variables,
) -> dict[str, Program]:
    """By name, in the order of the manifest; `images` by component."""

    def program(spec: ContainerSpec) -> Program:
        def make() -> Container:
            environ = {**spec.environ, **variables.get(spec.name, {})}
            return pod.run(
                images[spec.component],
                [],
                environ={key: value for key, value in environ.items() if value is not None},
                volumes=spec.volumes,
                data=spec.data,
                user=spec.user,
                cap_add=spec.capabilities,
            )

        return Program(f"{spec.name} of {pod.name}", make)

    return {spec.name: program(spec) for spec in specs}


def terminate(pod: Mapping[str, Program]) -> None:
    """As kubelet ends a pod: who started first ends last. Fails where one does not end in order."""
    for program in reversed(list(pod.values())):
        status = program.terminate()
        assert status == 0, f"{program.name} ended with {status}: {program.log_text()[-2000:]}"


def merged(*parts: Variables) -> Variables:
    """The last one that says something of a variable is right."""
    names = {name for part in parts for name in part}
    return {
        name: {key: value for part in parts for key, value in part.get(name, {}).items()}
        for name in names
    }
