"""Why a request is refused: a mistake with the status of HTTP that goes with it."""

from stagewise.errors import StagewiseError

MISTAKE = 422


class Refusal(StagewiseError):
    """A request that cannot be served as things stand."""

    status = 400
    retry_after_s: int | None = None


class Unknown(Refusal):
    """There is no such thing."""

    status = 404


class Conflict(Refusal):
    """It does not go with what happened before."""

    status = 409


class NotReady(Conflict):
    """It will go with what happens soon: ask again."""

    retry_after_s = 1


class TooLarge(Refusal):
    status = 413


class TooSlow(Refusal):
    status = 408


class TooMany(Refusal):
    status = 429
    retry_after_s = 1


class NoToken(Refusal):
    status = 401


class Forbidden(Refusal):
    status = 403
