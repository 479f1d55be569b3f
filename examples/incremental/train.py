"""The training worker of an IncrementalLearningJob: goes on from the base model."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import logistic
import worker_api

EPOCHS = int(os.environ.get("EPOCHS", "200"))


def main() -> None:
    base, target = Path(os.environ["BASE_MODEL_URL"]), Path(os.environ["MODEL_URL"])
    samples = logistic.load(Path(os.environ["TRAIN_DATASET_URL"]))
    weights = logistic.read_model(base) if base.is_file() else logistic.initial()
    weights = logistic.train(weights, samples, epochs=EPOCHS)
    model = target / "model.json"
    logistic.write_model(model, weights)
    score = logistic.precision(weights, samples)
    print(f"{len(samples)} samples, precision {score:.3f} on them: {model}", flush=True)
    worker_api.report(
        "train",
        "completed",
        owner_kind="incrementallearningjob",
        results=[{"format": "json", "url": str(model), "metrics": {"precision": [score]}}],
    )


if __name__ == "__main__":
    main()
