"""What a caller of this package can do wrong, as types; a run that went badly is a Result and no exception."""

from __future__ import annotations


class TrainopsError(Exception):
    """Base of this package's errors; the text names the file, option or tool and the fix."""


class PlaybookNotFound(TrainopsError):
    """There is no such playbook, neither as a file nor in the collection."""


class InventoryNotFound(TrainopsError):
    """An inventory was named that does not exist."""


class WrongInventory(TrainopsError):
    """An inventory is a YAML file that does not say which hosts there are."""


class FolderNotFound(TrainopsError):
    """The folder to run in does not exist."""


class WrongOption(TrainopsError):
    """An option has a value that cannot be meant, such as a limit that names no host."""


class WrongExtravars(TrainopsError):
    """Extra variables that cannot be handed to Ansible."""


class AnsibleMissing(TrainopsError):
    """The environment has no ansible-playbook that could run."""


class NoTemporaryFolder(TrainopsError):
    """There is no room, or no right, for the files that a run needs for its time; nothing was started."""


class WrongTarget(TrainopsError):
    """A container or node that was named in a way that cannot be meant."""


class ProjectNotFound(TrainopsError):
    """What should be deployed is not there, or is nothing that could be."""


class FileExists(TrainopsError):
    """A file that would be written is there already, with other content."""
