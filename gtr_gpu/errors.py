"""The errors that a user can cause, each one sentence with its remedy."""


class GTRError(Exception):
    """A mistake in what the caller gave: its message names the argument, what was expected, what came and the remedy.

    The command line prints the message as one line and exits with status 2.
    """


class UnreadableSourceError(GTRError):
    """A file that no reader can make tables of; in a lenient build it is reported and the rest goes on."""


class IndexFormatError(GTRError):
    """A folder that is not an index, or one that is truncated, foreign or newer than this library."""
