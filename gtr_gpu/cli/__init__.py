"""The command `gtr`: one file a command."""
