"""Tables of Iceberg catalogs by name, and their columns with field ids."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import InvalidInputError, MissingLibraryError, TableCatalogError, TidelogError
from tidelog.tables.types import normal

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table as IcebergTable

__all__ = [
    "asking",
    "catalog_of",
    "columns_with_ids",
    "for_commits",
    "load_iceberg",
    "load_table",
    "with_ids",
]

_FIELD_ID = "PARQUET:field_id"
_RETRIES = "commit.retry.num-retries"


def load_iceberg(target: str, options: Mapping[str, str]) -> IcebergTable | None:
    """The table `catalog.namespace.table`; None if there is none."""
    return load_table(*catalog_of(target, options))


def columns_with_ids(schema: Any) -> pa.Schema:
    """The columns of an Iceberg schema, with their field ids."""
    found = schema.as_arrow()
    return pa.schema(
        [with_ids(pa.field(one.name, normal(one.type)), schema.find_field(one.name)) for one in found]
    )


def catalog_of(target: str, options: Mapping[str, str]) -> tuple[Catalog, str]:
    """The catalog of a table, and the table's name there."""
    from pyiceberg.catalog import load_catalog

    name, _, identifier = target.partition(".")
    if not name or "." not in identifier.strip("."):
        raise InvalidInputError(f"an Iceberg table is named catalog.namespace.table, not {target!r}")
    with asking(name):
        return load_catalog(name, **options), identifier


@contextlib.contextmanager
def asking(name: str) -> Iterator[None]:
    """What a catalog's library raises, as an error of ours. Each has its own: Thrift, boto3, requests, ...

    A commit that is refused is left as it is. So is an error of ours.
    """
    from pyiceberg.exceptions import CommitFailedException, NotInstalledError

    try:
        yield
    except (TidelogError, CommitFailedException):
        raise
    except NotInstalledError as error:
        raise MissingLibraryError(f"catalog {name}: {error}") from error
    except ValueError as error:
        raise InvalidInputError(
            f"catalog {name}: {error}; configure it in .pyiceberg.yaml, or give its properties "
            "(--table-option uri=..., warehouse=...)"
        ) from error
    except Exception as error:
        told = next(iter(str(error).strip().splitlines()), "")
        raise TableCatalogError(
            f"catalog {name} does not answer, or refuses to: {type(error).__name__}: {told}"
        ) from error


def load_table(catalog: Catalog, identifier: str) -> IcebergTable | None:
    """A table of a catalog; None if there is none."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    with asking(catalog.name):
        try:
            return catalog.load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None


def for_commits(table: IcebergTable) -> IcebergTable:
    """A table as commits need it, in memory only: the catalog has its own metadata.

    pyiceberg's own attempts are turned off, for they do not look at offsets. Days outside of the calendar of
    Python are called by their numbers: pyiceberg names partitions while it commits, or refuses them.
    """
    metadata = table.metadata
    properties = {**metadata.properties, _RETRIES: "0"}
    specs = [_with_all_days(one) for one in metadata.partition_specs]
    table.metadata = metadata.model_copy(update={"properties": properties, "partition_specs": specs})
    return table


def _with_all_days(spec: PartitionSpec) -> PartitionSpec:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.transforms import DayTransform

    class AnyDay(DayTransform[Any]):
        def to_human_string(self, kind: Any, value: Any) -> str:
            try:
                return super().to_human_string(kind, value)
            except OverflowError:
                return str(value)

    fields = [
        one.model_copy(update={"transform": AnyDay()}) if isinstance(one.transform, DayTransform) else one
        for one in spec.fields
    ]
    return PartitionSpec(*fields, spec_id=spec.spec_id)


def with_ids(arrow: pa.Field, iceberg: Any) -> pa.Field:
    """A column of files with the ids of the table's column, nested ones too."""
    return arrow.with_type(_type_with_ids(arrow.type, iceberg.field_type)).with_metadata(
        {_FIELD_ID: str(iceberg.field_id)}
    )


def _type_with_ids(kind: pa.DataType, iceberg: Any) -> pa.DataType:
    if pa.types.is_struct(kind):
        known = {one.name: one for one in iceberg.fields}
        return pa.struct([with_ids(one, known[one.name]) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(with_ids(kind.value_field.with_name("element"), iceberg.element_field))
    if pa.types.is_map(kind):
        key, item = (
            with_ids(kind.key_field, iceberg.key_field),
            with_ids(kind.item_field, iceberg.value_field),
        )
        return pa.map_(key, item)
    return kind
