"""Growth: pairs are added to a model, the most valuable first.

`waves` has the budget, the judgement of a wave and the loop over waves; `growing_block` computes the accuracy of a
model after every pair, for curves.
"""
