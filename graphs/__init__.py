"""Which pairs of classes to train: model graphs over the classes.

A model graph has the classes 0..n-1 as nodes and the trained pairs as edges. Builders return a networkx.Graph
whose ``graph.graph`` records how it was built; `build` calls a builder by the name of its family.

A code matrix says which sets of classes to train against each other: machines on sets instead of pairs.

References
----------
.. [S] O. Such et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
   https://github.com/ondrej-such/svm3
"""

from .bipartite import bipartite
from .code_connection import closed_classes, code_identifies, code_is_connected
from .code_graph import code_from_graph, code_graph
from .code_matrix import check_code, code_of_pairs
from .code_text import code_as_text, code_from_text
from .codes import one_vs_one, one_vs_rest
from .complete import complete
from .coverage import Coverage, coverage, has_distant_pairs
from .families import CODE_FAMILIES, FAMILIES, build, build_code, family_parameters, needs_distances
from .growth_order import grow, grown
from .hub_neighbours import hub_neighbours
from .model_code import ModelCode, Sides, model_code, sides_of
from .model_graph import check_model_graph, edge_array, edge_order, model_graph, relabel_to_indices
from .pair_matrix import check_distances
from .random_codes import dense_code, sparse_code
from .requested_graph import asks_for_code, requested_graph
from .trees import five_vertex_trees, path, spanning_tree, star, star_of_least_distance, tree

__all__ = [
    "CODE_FAMILIES",
    "FAMILIES",
    "Coverage",
    "ModelCode",
    "Sides",
    "asks_for_code",
    "bipartite",
    "build",
    "build_code",
    "check_code",
    "check_distances",
    "check_model_graph",
    "closed_classes",
    "code_as_text",
    "code_from_graph",
    "code_from_text",
    "code_graph",
    "code_identifies",
    "code_is_connected",
    "code_of_pairs",
    "complete",
    "coverage",
    "dense_code",
    "edge_array",
    "edge_order",
    "family_parameters",
    "five_vertex_trees",
    "grow",
    "grown",
    "has_distant_pairs",
    "hub_neighbours",
    "model_code",
    "model_graph",
    "needs_distances",
    "one_vs_one",
    "one_vs_rest",
    "path",
    "relabel_to_indices",
    "requested_graph",
    "sides_of",
    "spanning_tree",
    "sparse_code",
    "star",
    "star_of_least_distance",
    "tree",
]
