"""What the rooms of the benchmarks share; it imports none of them.

- ``interface``: tasks, rows, splits, and what every model looks like
- ``data``: name of a data set -> features and target, coded and split alike for every model
- ``models``: one file for each rival, ours among them; their libraries are imported when used
- ``cells``: what is measured at once, as one line of JSON, and the files of these lines
- ``pool``: cells in processes of their own
- ``scores``: numbers that judge predictions, selected components and ranks
- ``decompositions``: components of several fits, kept, aligned and scored for stability
- ``environment``: where and when a measurement was taken, and what a run says on the way
- ``markdown``: tables, numbers and paragraphs of a page
- ``bars``: measurements that are compared with a bar, their sizes and their page
- ``child``: what these measure in a fresh interpreter
- ``settings``: settings of a fit as plain dicts
"""
