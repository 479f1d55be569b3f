"""The inference worker of an IncrementalLearningJob: answers with the deployed model.

With hot update it takes a new model as soon as LC has put it there, and says so to LC.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import logistic
import worker_api


def main() -> None:
    hot = os.environ.get("MODEL_HOT_UPDATE", "").lower() == "true"
    config = Path(os.environ.get("MODEL_HOT_UPDATE_CONFIG", "/model-hot-update/model_config.json"))
    interval = float(os.environ.get("MODEL_POLL_PERIOD_SECONDS", "60"))
    model = Path(os.environ["MODEL_URL"])
    known = ""
    while True:
        if hot and config.is_file():
            said = json.loads(config.read_text(encoding="utf-8"))["model_config"]
            if said["model_update_time"] != known:
                # It lies beside what describes it, wherever that is mounted.
                known, model = (
                    said["model_update_time"],
                    config.parent / Path(said["model_path"]).name,
                )
                worker_api.report("deploy", "completed", owner_kind="incrementallearningjob")
        weights = logistic.read_model(model) if model.is_file() else logistic.initial()
        print(f"answering with {model}: {logistic.predict(weights, (1.0, 1.0)):.3f}", flush=True)
        time.sleep(interval)


if __name__ == "__main__":
    main()
