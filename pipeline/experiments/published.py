"""Tables 3 to 6 as [S] prints them, with rows of ours in the same columns.

[S] *Bridging performance gap between minimal and maximal SVM models*. A row of Tables 3 to 5 is a set of pictures, a
network and how it was trained: neither the sets nor the networks are ours, so the order within a row can be compared,
the numbers cannot. Errors are in percent.
"""

from typing import NamedTuple, TypeAlias, TypeVar

__all__ = ["TABLE_3", "TABLE_4", "TABLE_5", "TABLE_6", "Quintets", "TenClasses", "Triplets", "printed"]

#: An error in percent, or as it is printed; None where the paper has none.
Percent: TypeAlias = float | str | None


class Triplets(NamedTuple):
    """A row of Table 3: errors of models on three classes, which are two pairs or all three by three couplings."""

    errors_of: str
    MIN3: Percent
    MIN2: Percent
    MIN1: Percent
    wlw2: Percent
    stratified: Percent
    normal: Percent


class Quintets(NamedTuple):
    """A row of Table 4: errors of models on five classes, the trees and all pairs by three couplings."""

    errors_of: str
    path_G4: Percent
    fork_G3: Percent
    star_G2: Percent
    wlw2: Percent
    stratified: Percent
    normal: Percent


class TenClasses(NamedTuple):
    """A row of Table 5: errors of models on ten classes, and of the network."""

    errors_of: str
    star: Percent
    MST: Percent
    wlw2: Percent
    stratified: Percent
    normal: Percent
    network: Percent


Errors = TypeVar("Errors", Triplets, Quintets, TenClasses)


def printed(row: Errors, decimals: int) -> Errors:
    """A row with its errors as text.

    Examples
    --------
    >>> printed(TABLE_4[0], 1)[:3]
    ("CIFAR-10, Page's", '', '4.4')
    """
    text = {
        column: "" if value is None else f"{value:.{decimals}f}"
        for column, value in row._asdict().items()
        if column != "errors_of"
    }
    return row._replace(**text)


TABLE_3 = (
    Triplets("CIFAR-10, Page's", 2.3, 2.1, 2.0, 1.9, 1.9, 1.9),
    Triplets("imagenette, resnet18, whole", 3.8, 3.2, 2.8, 2.6, 2.6, 2.6),
    Triplets("imagenette, resnet18, fresh", 4.8, 4.7, 4.5, 4.4, 4.4, 4.3),
    Triplets("imagenette, resnet18, adapt", 1.1, 1.1, 1.0, 0.9, 0.9, 0.9),
    Triplets("imagenette, resnet34, whole", 3.3, 2.8, 2.5, 2.4, 2.3, 2.3),
    Triplets("imagenette, resnet34, fresh", 5.5, 5.4, 5.2, 4.9, 4.9, 5.0),
    Triplets("imagenette, resnet34, adapt", 1.1, 1.1, 0.9, 0.8, 0.8, 0.8),
    Triplets("imagewoof, resnet18, whole", 11.5, 10.7, 10.2, 9.8, 9.8, 9.7),
    Triplets("imagewoof, resnet18, fresh", 8.0, 7.6, 7.5, 7.3, 7.2, 7.2),
    Triplets("imagewoof, resnet18, adapt", 3.5, 3.5, 3.4, 3.2, 3.2, 3.2),
    Triplets("imagewoof, resnet34, whole", 11.0, 10.5, 10.0, 9.7, 9.7, 9.5),
    Triplets("imagewoof, resnet34, fresh", 10.0, 9.4, 9.1, 8.9, 8.9, 8.9),
    Triplets("imagewoof, resnet34, adapt", 3.3, 3.4, 3.4, 3.1, 3.1, 3.1),
)

TABLE_4 = (
    Quintets("CIFAR-10, Page's", None, 4.4, 4.0, 3.4, 3.4, 3.4),
    Quintets("imagenette, resnet18, whole", 7.1, 6.7, 6.2, 4.3, 4.2, 4.3),
    Quintets("imagenette, resnet18, fresh", 7.8, 7.6, 7.2, 6.4, 6.4, 6.3),
    Quintets("imagenette, resnet18, adapt", 2.6, 2.2, 1.9, 1.4, 1.4, 1.4),
    Quintets("imagenette, resnet34, whole", 6.4, 6.0, 5.5, 3.9, 3.9, 3.8),
    Quintets("imagenette, resnet34, fresh", 9.2, 8.9, 8.5, 7.4, 7.4, 7.4),
    Quintets("imagenette, resnet34, adapt", 3.0, 2.4, 1.9, 1.2, 1.2, 1.2),
    Quintets("imagewoof, resnet18, whole", 19.7, 19.3, 18.6, 15.8, 15.8, 15.4),
    Quintets("imagewoof, resnet18, fresh", 13.8, 13.5, 13.1, 11.9, 11.9, 11.8),
    Quintets("imagewoof, resnet18, adapt", 6.3, 6.1, 5.8, 5.3, 5.3, 5.2),
    Quintets("imagewoof, resnet34, whole", 18.8, 18.3, 17.7, 15.3, 15.3, 14.8),
    Quintets("imagewoof, resnet34, fresh", 16.8, 16.4, 16.0, 14.1, 14.1, 14.2),
    Quintets("imagewoof, resnet34, adapt", 6.4, 6.1, 5.7, 5.1, 5.1, 5.1),
)

TABLE_5 = (
    TenClasses("CIFAR-10, Page's", 6.6, 6.5, 6.1, 6.1, 6.2, 5.9),
    TenClasses("imagenette, resnet18, whole", 9.5, 9.8, 7.1, 7.0, 7.5, 9.5),
    TenClasses("imagenette, resnet18, fresh", 10.7, 11.1, 9.4, 9.3, 9.2, 8.6),
    TenClasses("imagenette, resnet18, adapt", 2.5, 4.8, 2.1, 2.0, 2.1, 1.9),
    TenClasses("imagenette, resnet34, whole", 8.4, 9.1, 6.6, 6.5, 6.5, 8.7),
    TenClasses("imagenette, resnet34, fresh", 12.3, 13.0, 10.9, 10.8, 11.2, 10.4),
    TenClasses("imagenette, resnet34, adapt", 2.6, 5.6, 1.8, 1.8, 1.8, 1.7),
    TenClasses("imagewoof, resnet18, whole", 28.4, 28.4, 25.3, 25.2, 24.6, 27.2),
    TenClasses("imagewoof, resnet18, fresh", 20.9, 21.6, 19.8, 19.8, 19.8, 19.4),
    TenClasses("imagewoof, resnet18, adapt", 9.8, 12.9, 9.2, 9.2, 9.0, 9.3),
    TenClasses("imagewoof, resnet34, whole", 26.9, 27.0, 23.8, 23.8, 22.9, 26.7),
    TenClasses("imagewoof, resnet34, fresh", 25.6, 25.4, 22.8, 22.8, 23.2, 22.6),
    TenClasses("imagewoof, resnet34, adapt", 10.3, 15.4, 8.9, 8.9, 8.8, 8.9),
)

#: Of 2500 samples, how many the first coupling gets wrong and the second right.
TABLE_6 = {
    ("wlw2", "stratified"): 5,
    ("wlw2", "normal"): 20,
    ("stratified", "wlw2"): 0,
    ("stratified", "normal"): 17,
    ("normal", "wlw2"): 18,
    ("normal", "stratified"): 20,
}
