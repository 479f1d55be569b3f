"""The controller: which object is reconciled when, and the writes that carry a plan out."""
