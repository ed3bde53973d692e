"""What the benchmarks and the experiments share: data, models, cells, tables, stability.

``benchmarks`` measures what the library reaches, ``experiments`` reproduces the paper's tables.
Neither imports the other, and both import this folder, which imports neither. It lies beside them
and not inside ``benchmarks``, because what two folders need belongs to none of the two; and outside
of the package, because a user of tpnn needs no rivals.

- ``interface``: tasks, rows, splits, and what every model looks like
- ``data``: name of a data set -> features and target, coded and split alike for every model
- ``models``: one file for each rival, ours among them; their libraries are imported when used
- ``cells``: one model on one split of one data set, as one line of JSON
- ``pool``: cells in processes of their own
- ``scores``: numbers that judge predictions, selected components and ranks
- ``stability``: components of several fits, aligned and scored
- ``environment``: where and when a measurement was taken
- ``tables``: lines of text as Markdown
- ``fuzz``: random tables, damaged model files and the laws that hold on them, for the tests too
"""
