"""The errors of this package."""

from penstock.errors import PenstockError


class ConfigurationError(PenstockError):
    """Something in the configuration file, or a class it names, is not usable.

    The text names the file and the key, names the fault and the correct values; it
    ends the program with exit code 2 before the first client is served.
    """


class NotNowError(ConfigurationError):
    """Something that the configuration needs is not there now, and may be in a minute.

    It ends the program with exit code 3: who starts it again may succeed.
    """
