"""The harness's last stage: asks a language model with the tables found, and scores its answers."""
