"""How fast and how big: `python -m tests.tools.bench`. Every part checks its own answer before it prints a number.

Each part runs in its own process, so that it does not inherit the memory of another. Things to compare are measured in turns, in one
run. Goals are reported as reached or not. A slow time never fails a run; a wrong answer does.
"""
