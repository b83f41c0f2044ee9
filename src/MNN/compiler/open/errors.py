"""Why something cannot be planned for a range of sizes."""


class NotOpenError(Exception):
    """A plan depends on sizes in a way that no formula tells: every size has a plan of its own. The message says where;
    it is for those who work on the engine, users never see it."""


class NeverOpenError(NotOpenError):
    """It is so whatever the range: another one need not be tried."""


__all__ = ["NeverOpenError", "NotOpenError"]
