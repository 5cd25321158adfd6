"""Errors written for the person who sees them: what is wrong, where, and what to do."""


class UserError(Exception):
    """The user's input was wrong; the command line prints the one-line message and exits with 2."""


class WorkFailed(Exception):
    """The input was fine but the work could not be finished; the command line exits with 1."""
