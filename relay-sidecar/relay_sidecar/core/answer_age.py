"""How old an answer of upstream was when it came: another relay sends the age of its cache."""


def told_age(text: str | None) -> float:
    """Seconds, of a header Age (RFC 9111, 5.1); 0 where there is none, or none that can be read."""
    is_age = text is not None and text.isascii() and text.isdigit() and len(text) < 10
    return float(text) if is_age and text is not None else 0.0
