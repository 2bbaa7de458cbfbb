"""Describe a dataset for the steps. To add a dataset, see docs/how-to/your-own-data.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from pipelines.code_files import CODE_FOLDER, locate_bundle
from pipelines.errors import DataError, SpecError
from pipelines.score_columns import PREDICTION_COLUMNS, is_score_column

if TYPE_CHECKING:
    import ibis
    import numpy as np
    import pandas as pd

    from pipelines.lookups import Lookup
    from pipelines.source import ChangingSource, Source
    from pipelines.window import Unit

Task = Literal["binary", "multiclass", "regression"]
"""What a model predicts: whether the label is true, which of several classes it is, or a number."""
UNITS = ("hour", "day", "month")
RESERVED_NAMES = ("models", "drift", "shadow", "loop")  # folders of the data docs that belong to no dataset
EXAMPLES = Path(__file__).parent / "datasets"
"""Folder of the example datasets."""


class TrainedModel(Protocol):
    """A trained model, loaded into memory."""

    def score(self, frame: pd.DataFrame) -> np.ndarray[Any, Any] | pd.DataFrame:
        """Return a probability or a number per row; or a frame with a column for each class or quantile."""

    def importance(self) -> dict[str, float]:
        """Return each feature's share of the total gain, largest first."""


class FeatureFunction(Protocol):
    """The function `features` of a dataset's package."""

    def __call__(self, rows: ibis.Table) -> ibis.Table:
        """Add the feature columns to `rows`, which hold only columns that are known at prediction time."""


@dataclass(frozen=True)
class Dataset:
    """Names and columns of a dataset. Its code is in the package `pipelines.datasets.NAME`."""

    name: str
    key: Sequence[str]
    """Columns that identify a row uniquely."""
    label: str = ""
    """Column to predict: true or false; a text or an integer for a multiclass model; a number for a regression. Null
    in rows whose label is not known. If the package has a file label.py, this file computes the label, and the
    published rows have no such column. Empty if nothing is predicted."""
    known_later: Sequence[str] = ()
    """Columns that are not known yet at prediction time; features may not use them."""
    features: Mapping[str, str] = field(default_factory=dict)
    """Maps each feature name to its kind: 'number' or 'category'."""
    event_time: str = ""
    """Column with the time of a row's event, or empty. If set, `validate` blocks a day whose last hours lack rows."""
    timezone: str = ""
    """Time zone in which the days of the source begin and end; empty if it is not known."""
    series: Sequence[str] = ()
    """Columns such as `station`: each value of such a column has rows during the whole day. `validate` checks this."""
    task: Task = "binary"
    """What a model of the dataset predicts."""
    rows_from: str = ""
    """Other dataset, whose published rows this one uses with another label. Empty: this one ingests its own rows."""
    partition: Unit = "day"
    """The unit in which rows arrive, are validated, published and scored: hour (in UTC), day or month."""
    lookups: Sequence[Lookup] = ()
    """Features that the model server reads in the online store; the step `materialize` writes them there."""

    def __post_init__(self) -> None:
        """Refuse a reserved name, an unknown task or unit; with a label, also reserved columns and a wrong hourly key.

        Raises:
            SpecError: the message names what is wrong. A retry cannot help.
        """
        if self.name in RESERVED_NAMES:
            raise SpecError(f"{self.name!r} cannot be a dataset: the data docs use this name.", "Choose another name.")
        if self.task not in get_args(Task):
            raise SpecError(f"{self.name} has the task {self.task!r}.", f"Use one of: {', '.join(get_args(Task))}.")
        if self.partition not in UNITS:
            raise SpecError(f"{self.name} has partitions by {self.partition!r}.", f"Use one of: {', '.join(UNITS)}.")
        if not self.label:  # nothing is predicted, so there are no tables of scores and predictions
            return
        if self.partition == "hour" and not {"date", "hour"} <= set(self.key):
            raise SpecError(f"the key of {self.name} lacks date or hour.", "Partitions by hour need both in key=.")
        # DuckDB ignores the case of names: Score and score are the same column.
        columns = (*self.key, *self.features, self.label)
        reserved_columns = [name for name in columns if is_score_column(name.lower(), is_binary=self.task == "binary")]
        reserved_columns += [column for column in self.key if column.lower() in PREDICTION_COLUMNS]
        if reserved_columns:
            message = f"{self.name} has a column {min(reserved_columns)}, a name that the tables of predictions use."
            raise SpecError(message, "Rename the column.")

    @property
    def staging(self) -> str:
        """Name of the table that the step `ingest` writes."""
        return f"{self.table}_raw"

    @property
    def table(self) -> str:
        """Name of the table that the step `validate` publishes."""
        return self.rows_from or self.name

    @property
    def quarantine(self) -> str:
        """Name of the table of the rows that the step `validate` quarantined."""
        return f"{self.table}_quarantine"

    @property
    def predictions(self) -> str:
        """Name of the table of the scores, with the key columns of this dataset."""
        return f"{self.name}_predictions"

    @property
    def outcomes(self) -> str:
        """Name of the table of the scores whose label is known, together with the label."""
        return f"{self.name}_outcomes"

    @property
    def requests(self) -> str:
        """Name of the table of the scores that an endpoint returned."""
        return f"{self.name}_requests"

    @property
    def package(self) -> Path:
        """Folder of the dataset's code."""
        return next(iter(_find_packages(self.name)), EXAMPLES / self.name)

    def find_file(self, name: str) -> Path:
        """Return the path of a file in the dataset's package, or, if it has none, in `pipelines.defaults`."""
        path = self.package / name
        return path if path.is_file() else Path(__file__).parent / "defaults" / name

    def locate_bundle(self) -> dict[str, Path]:
        """Return the files that training and serving need, as a map of path in the source bundle to local file.

        The dataset's bundle.txt lists the files. If there is none, the list of `pipelines.defaults` is used, and the
        dataset's own model.py is added, if it has one, with its __init__.py and the modules that `Dataset` needs.
        """
        listing, own_model = self.find_file("bundle.txt"), self.package / "model.py"
        files = locate_bundle(listing, CODE_FOLDER)
        if own_model.is_file() and listing.parent != self.package:
            imported_names = ("code_files", "dataset", "lookups/__init__", "datasets/__init__")
            files |= {f"pipelines/{name}.py": CODE_FOLDER / f"pipelines/{name}.py" for name in imported_names}
            files |= {
                f"pipelines/datasets/{self.name}/{name}": self.package / name for name in ("__init__.py", "model.py")
            }
        return files

    def import_module(self, name: str) -> ModuleType:
        """Import a module of the dataset's package; if the package lacks it, the module of `pipelines.defaults`."""
        try:
            return import_module(f"pipelines.datasets.{self.name}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"pipelines.datasets.{self.name}.{name}":
                raise
        return import_module(f"pipelines.defaults.{name}")

    def open_source(self, folder: Path | None = None) -> Source:
        """Open the dataset's source of partitions.

        Args:
            folder: where to read; None: the dataset's default location.

        Raises:
            SpecError: the source has no partitions of this unit, or the dataset has `rows_from`. A retry cannot help.
        """
        source: Source = self._open(folder, "read", "has no partitions; read it with the step `sync`")
        if (unit := getattr(source, "partition", self.partition)) != self.partition:
            raise SpecError(f"the source of {self.name} has partitions by {unit}, the dataset by {self.partition}.")
        return source

    def open_changing_source(self, folder: Path | None = None) -> ChangingSource:
        """Open the dataset's source that is read incrementally by cursor.

        Args:
            folder: where to read; None: the dataset's default location.

        Raises:
            SpecError: the source has no cursor, or the dataset has `rows_from`. A retry cannot help.
        """
        return self._open(folder, "read_changes", "has partitions; read it with the step `ingest`")  # type: ignore[no-any-return]

    def load_model(self, folder: Path) -> TrainedModel:
        """Load the model that the training script saved in `folder`.

        Raises:
            DataError: the folder holds no model that can be read. A retry cannot help.
        """
        try:
            model: TrainedModel = self.import_module("model").load(folder)
        except Exception as error:  # for a broken file, the model library may raise any error
            from pipelines.system.error_translation import describe_reason  # not part of a training job's bundle

            reason = describe_reason(error)
            raise DataError(
                f"{folder} holds no model of {self.name} that can be read: {reason}.", "The step `train` writes it."
            ) from None
        return model

    def load_feature_function(self) -> FeatureFunction:
        """Load the function that adds the feature columns to rows."""
        features: FeatureFunction = self.import_module("features").features
        return features

    def require_own_days(self) -> None:
        """Check that the dataset ingests its own rows.

        Raises:
            SpecError: the dataset uses the rows of another one. A retry cannot help.
        """
        if self.rows_from:
            raise SpecError(f"{self.name} uses the rows of {self.rows_from}.", f"Give `--dataset {self.rows_from}`.")

    def _open(self, folder: Path | None, method: str, problem: str) -> Any:
        """Open the dataset's source; raise a SpecError with the text `problem` if the source lacks `method`."""
        self.require_own_days()
        source = import_module(f"pipelines.datasets.{self.name}.source").open_source(folder)
        if not hasattr(source, method):
            raise SpecError(f"the source of {self.name} {problem}.")
        return source


def load_dataset(name: str) -> Dataset:
    """Load the description of a dataset from the package `pipelines.datasets.NAME`.

    The package is in pipelines/datasets or in a folder of LEEWAY_DATASETS (default: the project's folder datasets/).

    Raises:
        SpecError: no such package defines `DATASET`, there are two, or it cannot be imported. A retry cannot help.
    """
    packages = _find_packages(name)
    if len(packages) > 1:
        raise SpecError(f"two packages are called {name}: {packages[0]} and {packages[1]}.", "Rename one of them.")
    module = f"pipelines.datasets.{name}"
    try:
        dataset = getattr(import_module(module), "DATASET", None)
    except Exception as error:  # a package may raise any error when it is imported
        if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{error.name}."):
            raise explain_import_error(f"the dataset {name!r} cannot be loaded", error) from None
        dataset = None
    if not isinstance(dataset, Dataset):
        raise SpecError(f"there is no dataset {name!r}.", f"Use one of: {', '.join(list_datasets())}.")
    return dataset


def explain_import_error(problem: str, error: Exception) -> SpecError:
    """Return the error for a module of a dataset that cannot be imported. Its message begins with `problem`."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return SpecError(f"{problem}: there is no module {error.name}.", "Install it, or correct the import.")
    text = " ".join(str(error).split()).rstrip(".")
    return SpecError(f"{problem}: {type(error).__name__}: {text}.", "Correct the dataset's package.")


def choose_dataset() -> Dataset:
    """Load the only dataset of the project. The examples are used only if the project has no dataset of its own.

    Raises:
        SpecError: the project has several datasets, or none. A retry cannot help.
    """
    candidates = [name for name in list_datasets() if _find_packages(name)[0].parent != EXAMPLES] or list_datasets()
    if len(candidates) != 1:
        hint = f"Give one of this project's datasets: {', '.join(candidates) or 'it has none'}."
        raise SpecError("no dataset is named.", hint)
    return load_dataset(candidates[0])


def list_datasets() -> list[str]:
    """List the names of the packages of `pipelines.datasets` that define a dataset, sorted."""
    packages = {module.name for module in iter_modules(_list_folders()) if module.ispkg}
    return [name for name in sorted(packages) if _has_dataset(name)]


def _list_folders() -> list[str]:
    """List the folders whose packages are datasets: first the examples, then the folders of LEEWAY_DATASETS."""
    return list(import_module("pipelines.datasets").__path__)


def _find_packages(name: str) -> list[Path]:
    """List the folders of the packages with this name."""
    folders = dict.fromkeys(Path(folder) / name for folder in _list_folders())
    return [folder for folder in folders if (folder / "__init__.py").is_file()]


def _has_dataset(name: str) -> bool:
    try:
        return isinstance(import_module(f"pipelines.datasets.{name}").DATASET, Dataset)
    except Exception:  # a package may raise any error when it is imported; such a package does not count as a dataset
        return False
