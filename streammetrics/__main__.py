"""`python -m streammetrics` is the command `streammetrics`."""

from __future__ import annotations

from streammetrics.cli.main import main

if __name__ == "__main__":
    main(prog_name="streammetrics")
