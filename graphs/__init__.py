"""Which pairs of classes to train: model graphs over the classes.

A model graph has the classes 0..n-1 as nodes and the trained pairs as edges. Builders return a networkx.Graph
whose ``graph.graph`` records how it was built; `build` calls a builder by the name of its family.

A code matrix says which sets of classes to train against each other: machines on sets instead of pairs.

References
----------
.. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
   https://github.com/ondrej-such/svm3
"""

from pairloom.graphs.checks import check_distances
from pairloom.graphs.code_connection import closed_classes, code_identifies, code_is_connected
from pairloom.graphs.code_matrix import check_code, code_as_text, code_from_text, code_of_pairs
from pairloom.graphs.codes import dense_code, one_vs_one, one_vs_rest, sparse_code
from pairloom.graphs.coverage import Coverage, coverage, has_distant_pairs
from pairloom.graphs.decomposition import Decomposition, Pairs, decomposition_of
from pairloom.graphs.families import (
    CODE_FAMILIES,
    FAMILIES,
    asks_for_code,
    build,
    build_code,
    family_parameters,
    needs_distances,
    requested_decomposition,
    requested_graph,
)
from pairloom.graphs.growth_order import grow, grown
from pairloom.graphs.hubs import bipartite, complete, hub_neighbour_pairs, hub_neighbours
from pairloom.graphs.model_code import ModelCode, code_from_graph, code_graph, model_code
from pairloom.graphs.model_graph import (
    check_model_graph,
    edge_array,
    edge_order,
    model_graph,
    relabel_to_indices,
)
from pairloom.graphs.point_distances import PointDistances
from pairloom.graphs.trees import five_vertex_trees, path, spanning_tree, star, star_of_least_distance, tree

__all__ = [
    "CODE_FAMILIES",
    "FAMILIES",
    "Coverage",
    "Decomposition",
    "ModelCode",
    "Pairs",
    "PointDistances",
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
    "decomposition_of",
    "dense_code",
    "edge_array",
    "edge_order",
    "family_parameters",
    "five_vertex_trees",
    "grow",
    "grown",
    "has_distant_pairs",
    "hub_neighbour_pairs",
    "hub_neighbours",
    "model_code",
    "model_graph",
    "needs_distances",
    "one_vs_one",
    "one_vs_rest",
    "path",
    "relabel_to_indices",
    "requested_decomposition",
    "requested_graph",
    "spanning_tree",
    "sparse_code",
    "star",
    "star_of_least_distance",
    "tree",
]
