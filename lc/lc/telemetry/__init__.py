"""The /status document and the metrics of one LC."""
