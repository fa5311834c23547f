"""The one exception a user's mistake raises: a sentence that names the place, the value and the rule."""


class StagewiseError(ValueError):
    """Something the user gave cannot be used; the message is one line meant for the user.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.Triggers(every=0)
    Traceback (most recent call last):
    stagewise.errors.StagewiseError: every = 0: must be at least 1
    """


class TrainingDiverged(StagewiseError):
    """The loss of a client is no longer a finite number."""


def one_line(text: str, limit: int = 300) -> str:
    """`text` on one line, shortened in the middle to at most `limit` characters."""
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    half = (limit - 3) // 2
    return f"{flat[:half]}...{flat[-half:]}"


def shown(value: object) -> str:
    """`value` as it may stand inside an error message."""
    return one_line(repr(value), 80)
