"""The one error that means: the user's input is wrong, not the program; and the warning beside it."""


class InputError(ValueError):
    """Bad input: a file, a flag or a value that the user can mend.

    The message is one line that says what is wrong, what was received and how to mend it. The command
    prints it and ends with exit code 2.
    """


class InputWarning(UserWarning):
    """Input that can be used but is likely not what the user means; one line that says why."""
