"""A training worker of a FederatedLearningJob: trains on its node's samples, which never leave it.

Each round it sends its weights to the aggregator and goes on with the average of all.
"""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import logistic
import worker_api

ROUNDS = int(os.environ.get("ROUNDS", "5"))
EPOCHS = int(os.environ.get("EPOCHS", "20"))
# Seconds that a round takes at least, so that people can watch.
ROUND_SECONDS = float(os.environ.get("ROUND_SECONDS", "0"))
# Seconds; the aggregator answers when all participants have sent theirs.
ROUND_TIMEOUT = 120.0


def exchange(number: int, weights: logistic.Weights, count: int) -> logistic.Weights:
    """The average of this round; waits for the aggregator to come up."""
    url = f"http://{os.environ['AGG_IP']}:{os.environ['AGG_PORT']}/rounds/{number}"
    body = json.dumps({"worker": os.environ["WORKER_NAME"], "weights": weights, "samples": count})
    deadline = time.monotonic() + ROUND_TIMEOUT
    while True:
        try:
            with urllib.request.urlopen(url, body.encode(), timeout=ROUND_TIMEOUT) as answer:
                averaged: logistic.Weights = json.load(answer)["weights"]
                return averaged
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def main() -> None:
    samples = logistic.load(Path(os.environ["TRAIN_DATASET_URL"]))
    weights = logistic.initial()
    for number in range(1, ROUNDS + 1):
        ends_at = time.monotonic() + ROUND_SECONDS
        weights = exchange(number, logistic.train(weights, samples, epochs=EPOCHS), len(samples))
        score = logistic.precision(weights, samples)
        print(f"round {number} of {ROUNDS}: precision {score:.3f}", flush=True)
        worker_api.report(
            "train",
            "completed" if number == ROUNDS else "running",
            owner_kind="federatedlearningjob",
            owner_info={
                "currentRound": number,
                "sampleCount": len(samples),
                "updateTime": time.strftime("%Y-%m-%d %H:%M:%S"),
            },
            results=[
                {
                    "format": "json",
                    "url": os.environ.get("MODEL_URL", ""),
                    "metrics": {"precision": round(score, 4)},
                }
            ],
        )
        time.sleep(max(0.0, ends_at - time.monotonic()))


if __name__ == "__main__":
    main()
