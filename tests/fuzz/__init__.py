"""Random tables and damaged model files, and the laws that must hold on all of them.

Everything is made from one whole number, so a failure is found again from its seed alone. The tests
try a few hundred seeds and ``python -m tests.fuzz`` a hundred thousand.

- ``columns``: random columns of every kind, as plain Python values
- ``containers``: the same columns as a table of pandas, polars, Arrow, NumPy or lists
- ``cases``: one table with targets, weights, offset and the settings of an estimator
- ``settings``: random settings that name features by position
- ``faults``: wrong arguments, which must be refused in plain words
- ``laws``: what holds for every fitted model
- ``explanations``: what holds for every explanation of it
- ``refits``: what holds when the same rows are fitted again in another form
- ``files``: damaged and crafted model files
- ``outcome``: what became of one seed
"""
