"""Learning with data, rounds and models that lie elsewhere."""

from pathlib import Path

from tests.integration.lc.bucket import Bucket
from tests.integration.lc.learning_job import Node, until
from tests.unit.lc.learning.jobs import condition, output

TRAINED = {"format": "pb", "url": "s3://shop-data/out/train/1/model.pb"}
BETTER = (
    {**TRAINED, "metrics": {"precision": [0.9]}},
    {"format": "pb", "url": "s3://shop-data/m/prod.pb", "metrics": {"precision": [0.5]}},
)


def lines(count: int) -> bytes:
    return b"".join(f"img/{number}.jpg 1\n".encode() for number in range(count))


def test_a_round_whose_data_and_models_lie_on_s3(tmp_path: Path) -> None:
    with Bucket() as bucket:
        bucket.secret(tmp_path / "shop", "keys")
        bucket.objects["shop-data/d/train.txt"] = lines(10)
        node = Node(
            data="s3://shop-data/d/train.txt",
            served="s3://shop-data/m/prod.pb",
            flags=[f"--secrets-dir={tmp_path}"],
            outputDir="s3://shop-data/out",
            credentialName="keys",
        )
        with node:
            node.start()
            ready = node.said("Train", "Ready")
            assert ready["input"]["dataURL"] == "s3://shop-data/out/data/train/1/data.txt"
            assert ready["input"]["dataIndexURL"] == "s3://shop-data/out/data/train/1/dataIndex.txt"
            assert bucket.objects["shop-data/out/data/train/1/data.txt"] == lines(8)
            index = bucket.objects["shop-data/out/data/train/1/dataIndex.txt"].decode().splitlines()
            assert index == ["s3://shop-data/d/", *(f"img/{number}.jpg" for number in range(8))]

            bucket.objects["shop-data/out/train/1/model.pb"] = b"new"
            node.goes_on(
                condition("Train", "Completed", 1, data=output(TRAINED)),
                condition("Eval", "Completed", 1, data=output(*BETTER)),
                condition("Deploy", "Waiting", 1),
            )
            node.said("Deploy", "Ready")
            assert bucket.objects["shop-data/m/prod.pb"] == b"new"
            # Nothing of what was under way stays on the node.
            left = {path.name for path in node.path("/var/lib/sedna/samples").rglob("*.*")}
            assert left <= {"1.eval.samples", "1.train.samples"}


def test_remote_data_that_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    with Bucket() as bucket:
        bucket.secret(tmp_path / "shop", "keys")
        bucket.objects["shop-data/d/train.txt"] = lines(3)
        node = Node(data="s3://shop-data/d/train.txt", flags=[f"--secrets-dir={tmp_path}"])
        with node:
            node.start()
            # LC's count of the dataset asks as well: whatever is new is sent twice.
            until(lambda: [it[2] for it in bucket.asked].count(304) >= 6)
            assert [it[2] for it in bucket.asked].count(200) == 2
            bucket.objects["shop-data/d/train.txt"] = lines(10)
            node.said("Train", "Ready")
            data = node.path("/srv/out/data/train/1/data.txt").read_bytes()
            assert sorted(data.splitlines()) == sorted(set(data.splitlines()))


def test_a_secret_that_is_wrong_is_told_and_the_round_goes_on_with_the_right_one(
    tmp_path: Path,
) -> None:
    with Bucket() as bucket:
        bucket.secret(tmp_path / "shop", "keys")
        (tmp_path / "shop/keys/ACCESS_KEY_ID").write_text("wrong")
        node = Node(
            flags=[f"--secrets-dir={tmp_path}"],
            outputDir="s3://shop-data/out",
            credentialName="keys",
        )
        with node:
            node.add(*lines(10).decode().splitlines())
            node.start()
            problem = node.until_told(lambda it: it.get("problem"))["problem"]
            assert "answered 403" in problem
            (tmp_path / "shop/keys/ACCESS_KEY_ID").write_text("the-key")
            node.said("Train", "Ready")
            assert bucket.objects["shop-data/out/data/train/1/data.txt"] == lines(8)
