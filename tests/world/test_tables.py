"""Scenarios from three tables: the same from every kind of table, and every mistake has its place."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from stagewise.errors import StagewiseError
from stagewise.world.scenario import Limits, Scenario, Weights
from stagewise.world.scenario_file import load_scenario, save_scenario

CLIENTS = [
    {"id": "c0", "online_probability": 0.9, "label_0": 30, "label_1": 10},
    {"id": "c1", "online_probability": 1, "label_0": 0, "label_1": 25},
    {"id": "c2", "online_probability": 0.5, "label_0": 7, "label_1": 7},
]
EDGES = [
    {"id": "es0", "capacity": 2, "uplink_delay_s": 0.2, "uplink_energy_j": 0.1},
    {"id": "es1", "capacity": 3, "uplink_delay_s": 0.3, "uplink_energy_j": 0},
]
LINKS = [
    {"client": "c1", "edge": "es0", "delay_s": 0.7, "energy_j": 2.5},
    {"client": "c0", "edge": "es1", "delay_s": 0.5, "energy_j": 1.5},
    {"client": "c0", "edge": "es0", "delay_s": 0.4, "energy_j": 1.7},
]
TABLES = {"clients": CLIENTS, "edges": EDGES, "links": LINKS}


def write(path: Path, rows: list[dict]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def files(folder: Path, **tables: list[dict]) -> dict[str, Path]:
    return {name: write(folder / f"{name}.csv", rows) for name, rows in (TABLES | tables).items()}


def changed(table: str, row: int, **cells: object) -> dict[str, list[dict]]:
    """The tables with some cells of one row replaced; `...` takes a column out of the row."""
    rows = [dict(record) for record in TABLES[table]]
    rows[row] |= cells
    rows[row] = {name: cell for name, cell in rows[row].items() if cell is not ...}
    return TABLES | {table: rows}


def refused(tables: dict, **options: object) -> str:
    with pytest.raises(StagewiseError) as error:
        Scenario.from_tables(**tables, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_three_lists_of_dicts():
    scenario = Scenario.from_tables(**TABLES, weights=Weights(1, 2, 3), local_steps=7, window=4)
    assert scenario.clients.ids == ("c0", "c1", "c2")
    assert scenario.clients.label_counts.tolist() == [[30, 10], [0, 25], [7, 7]]
    assert scenario.links.start.tolist() == [0, 2, 3, 3]
    assert scenario.links.edge.tolist() == [0, 1, 0]
    assert scenario.costs.delay_s.tolist() == [0.4, 0.5, 0.7]
    assert scenario.costs.energy_j.tolist() == [1.7, 1.5, 2.5]
    assert scenario.edges.capacity.tolist() == [2, 3]
    assert (scenario.weights, scenario.local_steps, scenario.window) == (Weights(1, 2, 3), 7, 4)
    assert math.isnan(scenario.model_bits)


def test_every_kind_of_table_is_the_same_scenario(tmp_path):
    pandas = pytest.importorskip("pandas")
    expected = Scenario.from_tables(**TABLES).sha256
    paths = files(tmp_path)
    assert Scenario.from_tables(**paths).sha256 == expected
    assert Scenario.from_tables(**{n: str(p) for n, p in paths.items()}).sha256 == expected
    frames = {name: pandas.DataFrame(rows) for name, rows in TABLES.items()}
    assert Scenario.from_tables(**frames).sha256 == expected
    frames = {name: pandas.read_csv(path) for name, path in paths.items()}
    assert Scenario.from_tables(**frames).sha256 == expected
    nullable = {name: frame.convert_dtypes() for name, frame in frames.items()}
    assert Scenario.from_tables(**nullable).sha256 == expected
    assert Scenario.from_tables(CLIENTS, paths["edges"], frames["links"]).sha256 == expected
    save_scenario(Scenario.from_tables(**TABLES), tmp_path / "s.json")
    assert load_scenario(tmp_path / "s.json").sha256 == expected


def test_files_as_spreadsheets_write_them(tmp_path):
    paths = files(tmp_path)
    for path in paths.values():
        text = path.read_text().replace("\r\n", "\n").replace(",", ", ")
        path.write_bytes(b"\xef\xbb\xbf" + ("\n" + text + "\n,,,\n").replace("\n", "\r\n").encode())
    paths["clients"].write_bytes(paths["clients"].read_bytes().replace(b"\r\n,,,", b""))
    assert Scenario.from_tables(**paths).sha256 == Scenario.from_tables(**TABLES).sha256


def test_data_frames_with_numbers_for_ids():
    pandas = pytest.importorskip("pandas")
    clients = pandas.DataFrame({"id": [7, 8], "online_probability": [0.5, 0.6], "data": [10, 20]})
    edges = pandas.DataFrame(
        {"id": [1], "capacity": 2, "uplink_delay_s": 0.1, "uplink_energy_j": 0}
    )
    links = pandas.DataFrame({"client": [7, 8], "edge": 1, "delay_s": [0.5, 0.4], "energy_j": 1.0})
    scenario = Scenario.from_tables(clients, edges, links)
    assert scenario.clients.ids == ("7", "8")
    assert scenario.limits == Limits(kld_max=math.inf)
    assert scenario.clients.data.tolist() == [10, 20]


def test_data_alone_needs_an_infinite_kld_max():
    clients = [{"id": f"c{i}", "online_probability": 0.5, "data": 9} for i in range(3)]
    tables = TABLES | {"clients": clients}
    assert "limits.kld_max = 0.2: must be infinite where table of clients has data" in refused(
        tables, limits=Limits()
    )
    assert Scenario.from_tables(**tables, limits=Limits(kld_max=math.inf)).labels == 1
    clients[1]["data"] = -3
    assert refused(tables) == (
        "table of clients: row 1: data = -3: must be a finite number of at least 0 and at most "
        "2147483647"
    )


def test_histories_and_everything_of_version_1(tmp_path):
    tables = changed("clients", 1, online_probability=None, history="00110")
    tables["clients"][0] |= {"x": 1.5, "y": 2, "cpu_hz": 1e9, "cycles_per_sample": 1e5}
    tables["clients"][0] |= {"capacitance": 0, "tx_power_w": 0.5, "batch_fraction": 0.2}
    tables["edges"] = [EDGES[0] | {"bandwidth_hz": 1e6, "x": 3, "y": 4}, EDGES[1]]
    tables["links"] = [*LINKS[:2], {"client": "c0", "edge": "es0", "gain": 1e-9}]
    scenario = Scenario.from_tables(**tables, window=2, model_bits=6e5, noise_w_per_hz=4e-21)
    assert scenario.clients.history == (None, "00110", None)
    assert scenario.clients.online_probability.tolist()[1] == pytest.approx(
        1 / 3 * 0.5 + 2 / 3 * 0.5
    )
    np.testing.assert_array_equal(scenario.links.measured, [False, True, True])
    assert scenario.clients.batch_fraction.tolist() == [0.2, 0.1, 0.1]
    np.testing.assert_array_equal(scenario.edges.position_m, [[3, 4], [math.nan, math.nan]])
    # The same from files, where columns without a value are empty.
    columns = {name: {c: "" for row in rows for c in row} for name, rows in tables.items()}
    full = {name: [columns[name] | row for row in rows] for name, rows in tables.items()}
    for row in full["clients"]:
        row |= {name: "" for name, cell in row.items() if cell is None}
    again = Scenario.from_tables(
        **files(tmp_path, **full), window=2, model_bits=6e5, noise_w_per_hz=4e-21
    )
    assert again.sha256 == scenario.sha256


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            changed("clients", 1, online_probability=1.5),
            "online_probability = 1.5: must be a finite",
        ),
        (
            changed("clients", 1, online_probability="x"),
            "online_probability = 'x': must be a number",
        ),
        (changed("clients", 1, label_1=2.5), "label_1 = 2.5: must be a whole number"),
        (changed("clients", 1, label_0=-1), "label_0 = -1: must be a finite number of at least 0"),
        (changed("clients", 1, label_0=None), "label_0: must not be empty"),
        (
            changed("clients", 1, online_probability=None),
            ": must have online_probability or history",
        ),
        (changed("clients", 1, history="01"), ": must have online_probability or history, and not"),
        (changed("clients", 1, id="c0"), "id = 'c0': must not occur twice, and is in {0}"),
        (changed("clients", 1, id=""), "id: must not be empty"),
        (changed("clients", 1, x=4), ": x and y must both be given, or neither"),
        (changed("clients", 1, cpu_hz=-5), "cpu_hz = -5.0: must be a finite number above 0"),
        (changed("clients", 1, label_1=0), "data size (sum of label_counts) = 0: must be"),
        (changed("edges", 1, capacity=1.5), "capacity = 1.5: must be a whole number"),
        (changed("edges", 1, capacity="many"), "capacity = 'many': must be a number"),
        (changed("edges", 1, uplink_delay_s=None), "uplink_delay_s: must not be empty"),
        (changed("edges", 1, uplink_energy_j=-1), "uplink_energy_j = -1.0: must be a finite"),
        (changed("links", 1, client="c9"), "client = 'c9': must be the id of a client"),
        (changed("links", 1, edge="c0"), "edge = 'c0': must be the id of an edge"),
        (
            changed("links", 1, delay_s=-0.5),
            "delay_s = -0.5: must be a finite number of at least 0",
        ),
        (changed("links", 1, energy_j=math.inf), "energy_j = inf: must be a finite number"),
        (
            changed("links", 1, delay_s=None),
            "delay_s = None: must be given, or a gain, and not both",
        ),
        (changed("links", 1, gain=1e-9), "delay_s = 0.5: must be given, or a gain, and not both"),
        (changed("links", 1, energy_j=None), "energy_j = nan: must be given where the weight of"),
        (
            changed("links", 2, edge="es1"),
            "edge = 'es1': a link must not occur twice, and is in {1}",
        ),
        (changed("links", 1, delay_s="0,5"), "delay_s = '0,5': must be a number"),
    ],
)
def test_an_error_names_table_row_and_column(tmp_path, tables, message):
    (table,) = (name for name, rows in tables.items() if rows is not TABLES[name])
    row = next(r for r, record in enumerate(tables[table]) if record != TABLES[table][r])

    def expected(where: str, first: int) -> str:
        text = message.format(*(where.format(number + first) for number in range(3)))
        return where.format(row + first) + ("" if text.startswith(":") else ": ") + text

    assert refused(tables).startswith(expected(f"table of {table}: row {{}}", 0))
    columns = {c: "" for record in tables[table] for c in record}
    rows = [
        columns | {name: "" if cell is None else cell for name, cell in record.items()}
        for record in tables[table]
    ]
    path = tmp_path / f"{table}.csv"
    assert refused(files(tmp_path, **{table: rows})).startswith(expected(f"{path}: line {{}}", 2))


@pytest.mark.parametrize("cell", [True, [1], {}, object(), b"1", 1j, "1"])
def test_cells_that_are_no_numbers(cell):
    found = refused(changed("links", 1, delay_s=cell))
    assert found.startswith("table of links: row 1: delay_s = ")
    assert "must be a number" in found


@pytest.mark.parametrize("cell", [1.5, True, [1], b"c0"])
def test_ids_that_are_no_text(cell):
    assert "row 1: id = " in refused(changed("clients", 1, id=cell))
    assert "row 1: client = " in refused(changed("links", 1, client=cell))


def test_a_history_read_as_a_number_is_refused():
    found = refused(changed("clients", 1, online_probability=None, history=110))
    assert found == (
        "table of clients: row 1: history = 110: must be text of 0 and 1, oldest first"
    )
    assert "history = '012': must be text of 0 and 1" in refused(
        changed("clients", 1, online_probability=None, history="012")
    )


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("id,online_probability,label_0,lable_1", "column 'lable_1': must be one of id, online"),
        ("id,online_probability,label_0,label_0", "column 'label_0': must not occur twice"),
        (
            "id,online_probability,label_0,label_2",
            "must have a column label_1: labels are numbered",
        ),
        ("id,online_probability,label_1,label_2", "must have a column label_0"),
        ("id,online_probability,label_0,label_01", "column 'label_01': must be one of"),
        (
            "id,online_probability,label_0,data",
            "must have columns label_0, label_1, ..., or a column",
        ),
        ("id,online_probability,x,y", "must have columns label_0, label_1, ..., or a column data"),
        ("x,online_probability,label_0,label_1", "must have a column id"),
        ("ID,online_probability,label_0,label_1", "column 'ID': must be one of id"),
    ],
)
def test_columns_that_cannot_be(tmp_path, header, message):
    path = tmp_path / "clients.csv"
    path.write_text(f"{header}\nc0,0.5,3,4\nc1,0.5,3,4\n")
    assert refused(TABLES | {"clients": path}).startswith(f"{path}: {message}")
    names = header.split(",")
    if len(set(names)) == len(names):
        rows = [dict(zip(names, ["c0", 0.5, 3, 4], strict=True))]
        assert message in refused(TABLES | {"clients": rows})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: must have a line that names the columns"),
        (b"id\n", "must have a column capacity"),
        (b"id,capacity,uplink_delay_s,uplink_energy_j\n", "must have at least one row"),
        (
            b"id,capacity,uplink_delay_s,uplink_energy_j\ne,1,1\n",
            "line 2: has 3 columns: must have 4",
        ),
        (b"id,capacity,uplink_delay_s,uplink_energy_j\n\n\ne,1,1,1,1\n", "line 4: has 5 columns"),
        (b"id,capacity,uplink_delay_s,uplink_energy_j\ne,1_0,1,1\n", "line 2: capacity = '1_0'"),
        (b"id,capacity,uplink_delay_s,uplink_energy_j\ne,nan,1,1\n", "line 2: capacity = 'nan'"),
        (
            b"id,capacity,uplink_delay_s,uplink_energy_j\nes0,1e999,1,1\nes1,1,1,1\n",
            "line 2: capacity = inf",
        ),
        (
            b"id,capacity,uplink_delay_s,uplink_energy_j\n\xff,1,1,1\n",
            "line 2: byte 0xff: must be UTF",
        ),
        (b'id,capacity,uplink_delay_s,uplink_energy_j\n"e,1,1,1\n', "line 2: not valid CSV"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, message):
    path = tmp_path / "edges.csv"
    path.write_bytes(content)
    found = refused(TABLES | {"edges": path})
    assert message in found
    assert found.startswith(f"{path}: ")


@pytest.mark.parametrize(
    "table", [None, 3, {"id": [1]}, [1], ["c0"], [None], "nowhere.csv", [{1: 2}]]
)
@pytest.mark.parametrize("name", list(TABLES))
def test_what_is_no_table(name, table):
    assert refused(TABLES | {name: table}).startswith(
        (f"table of {name}", "nowhere.csv: cannot be")
    )


def test_no_rows():
    assert refused(TABLES | {"clients": []}) == "table of clients: must have a column id"
    assert refused(TABLES | {"links": []}) == "table of links: must have a column client"
