"""Measurements of what the library reaches: ``python -m benchmarks`` lists them.

- ``paper``: every table and figure of the paper
- ``peers``: beside CatBoost, LightGBM, XGBoost, EBM and DiCE
- ``speed``: times, memory, cards, tables larger than memory, clusters, exports
- ``truth``: components, p-values, intervals and bits that are known in advance; stability
- ``common``: what these share
- ``results``: lines of the last runs, from which the pages are written
"""
