"""The array code behind Scorer.

`blocks` cuts lists into blocks. `facts` computes what a block's lists have in common with formulas (hits, DCG, ideal DCG, ...) from
their graded items. `formulas` has each metric's formula.
"""
