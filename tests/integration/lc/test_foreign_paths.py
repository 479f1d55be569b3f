"""What lies outside of the files roots, or of its own job, no object and no worker reaches."""

import pytest

from tests.integration.lc.learning_job import MODEL_IN, Json, Node
from tests.unit.lc.learning.jobs import condition, output

SECRET = "root:x:of-the-node"
ONLY_SRV = ("--files-root=/srv", "--trust-any-worker")
TRAINED = {"format": "pb", "url": MODEL_IN, "metrics": {"precision": [0.9]}}
BETTER = (TRAINED, {"format": "pb", "url": "/srv/m/prod.pb", "metrics": {"precision": [0.5]}})


def node(**given: object) -> Node:
    """With a secret outside of its one root."""
    found = Node(flags=ONLY_SRV, **given)  # type: ignore[arg-type]
    place = found.path("/etc/shadow")
    place.parent.mkdir()
    place.write_text(SECRET)
    place.chmod(0o600)
    found.path("/srv/m").mkdir(parents=True)
    return found


def secret_is_nowhere_else(node: Node) -> None:
    own = node.path("/etc/shadow")
    assert own.read_text() == SECRET
    copies = [
        it
        for it in node.lc.root.rglob("*")
        if it != own and not it.is_symlink() and it.is_file() and SECRET.encode() in it.read_bytes()
    ]
    assert copies == []


def failed(node: Node, stage: str) -> Json:
    body = node.said(stage, "Failed")
    assert body["reason"] == "ForeignPath", body
    return body


def to_deploy(node: Node) -> None:
    node.add(*map(str, range(10)))
    node.start()
    node.said("Train", "Ready")
    node.goes_on(condition("Train", "Running", 1))
    node.path(MODEL_IN).write_text("new")
    assert node.worker("train", TRAINED) == 200
    node.said("Train", "Completed")
    node.goes_on(
        condition("Train", "Completed", 1, data=output(TRAINED)),
        condition("Eval", "Completed", 1, data=output(*BETTER)),
        condition("Deploy", "Waiting", 1),
    )


@pytest.mark.parametrize("url", ["/etc/shadow", "/srv/out/../../etc/shadow", "/srv/other/m.pb"])
def test_a_worker_that_names_what_is_not_its_jobs_fails_its_stage(url: str) -> None:
    with node() as it:
        it.add(*map(str, range(10)))
        it.start()
        it.said("Train", "Ready")
        it.goes_on(condition("Train", "Running", 1))
        assert it.worker("train", TRAINED, {"format": "pb", "url": url}) == 200
        assert url in failed(it, "Train")["message"]
        secret_is_nowhere_else(it)


@pytest.mark.parametrize("served", ["/etc/cron.d/evil", "/srv/link/evil", "/srv/m/../../etc/evil"])
def test_a_model_outside_of_the_roots_is_never_written(served: str) -> None:
    with node(served=served) as it:
        it.path("/etc/cron.d").mkdir()
        it.path("/srv/link").symlink_to("/etc/cron.d")
        before = sorted(it.path("/etc").rglob("*"))
        to_deploy(it)
        if ".." in served:
            it.lc.until(lambda _: "waits for model prod" in it.lc.notes().values().__str__())
        else:
            failed(it, "Deploy")
        assert sorted(it.path("/etc").rglob("*")) == before
        secret_is_nowhere_else(it)


@pytest.mark.parametrize("target", ["/etc/shadow", "../../../../etc/shadow", "/srv/other"])
def test_a_link_that_a_worker_lays_into_its_jobs_directory_leads_nowhere(target: str) -> None:
    with node() as it:
        it.path("/srv/other").write_text("another job's")
        it.path("/srv/m/prod.pb").write_text("old")
        it.add(*map(str, range(10)))
        it.start()
        it.said("Train", "Ready")
        it.goes_on(condition("Train", "Running", 1))
        it.path(MODEL_IN).symlink_to(target)
        assert it.worker("train", TRAINED) == 200
        it.said("Train", "Completed")
        it.goes_on(
            condition("Train", "Completed", 1, data=output(TRAINED)),
            condition("Eval", "Completed", 1, data=output(*BETTER)),
            condition("Deploy", "Waiting", 1),
        )
        failed(it, "Deploy")
        assert it.path("/srv/m/prod.pb").read_text() == "old"
        secret_is_nowhere_else(it)


def test_lcs_own_store_is_no_dataset() -> None:
    with Node(flags=("--files-root=/var/lib/sedna", *ONLY_SRV)) as it:
        it.path("/srv/d").mkdir(parents=True)
        it.path("/srv/d/train.txt").symlink_to("/var/lib/sedna/lc.sqlite3")
        it.start()
        it.lc.until(lambda _: "ForeignPath" in it.lc.notes()["dataset d1"])
