"""How fast and how big: `python -m tests.bench`. Every part checks its own answer before it prints a number.

Each measured thing runs in a process of its own, so that no part inherits another's memory; what is to be compared is
measured in one run, turn by turn. Goals are reported as reached or not: no time ever fails a run, a wrong answer does.
"""
