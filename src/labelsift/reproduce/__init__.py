"""The paper as a command: its tables and figures as data, and the runner that fills them."""
