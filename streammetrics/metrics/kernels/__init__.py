"""The array code behind Scorer.

`formulas` has each metric's formula, once. It reads facts about lists (hits, DCG, ideal DCG, ...) from one of two kernels:
`sparse` works on graded items and takes any grades; `bits` works on bit masks and takes short lists of small whole grades, about
ten times faster. `dispatch` chooses. Both give the same integers.
"""
