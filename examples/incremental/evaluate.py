"""The evaluation worker of an IncrementalLearningJob: scores the new model and the deployed one."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import logistic
import worker_api


def main() -> None:
    samples = logistic.load(Path(os.environ["TEST_DATASET_URL"]))
    results = []
    for url in os.environ["MODEL_URLS"].split(";"):
        path = Path(url)
        weights = logistic.read_model(path) if path.is_file() else logistic.initial()
        score = logistic.precision(weights, samples)
        print(f"{url}: precision {score:.3f} on {len(samples)} samples", flush=True)
        results.append({"format": "json", "url": url, "metrics": {"precision": [score]}})
    worker_api.report("eval", "completed", owner_kind="incrementallearningjob", results=results)


if __name__ == "__main__":
    main()
