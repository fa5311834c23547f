"""Reading points from CSV: the names columns may have, and every way a file can be wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stagewise.errors import StagewiseError
from stagewise.world.generate import Points, read_points


def write(folder, content):
    path = folder / "points.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("latitude", ["lat", "Latitude", "LATITUDE", " LAT "])
@pytest.mark.parametrize("longitude", ["lon", "Lng", "LONG", "longitude"])
def test_columns_under_their_usual_names(tmp_path, latitude, longitude):
    points = read_points(write(tmp_path, f"a,{longitude},{latitude}\nx,144.5,-37.5\n"))
    assert (points.latitude.tolist(), points.longitude.tolist()) == ([-37.5], [144.5])
    assert points.ids is points.kinds is None


def test_spreadsheet_files_are_read(tmp_path):
    content = (
        b'\xef\xbb\xbfSITE_ID,LATITUDE,LONGITUDE,NAME\r\n7,1,2,"a, b"\r\n\r\n8,3,4,"c\r\nd"\r\n'
    )
    points = read_points(write(tmp_path, content))
    assert points.ids == ("7", "8")
    assert points.latitude.tolist() == [1, 3]


def test_kinds_split_the_points(tmp_path):
    points = read_points(
        write(tmp_path, "kind,id,lat,lon\nBS,1,10,20\nuser,1,11,21\nUSER,2,12,22\n")
    )
    assert points.sites.ids == ("1",)
    assert points.users.ids == ("1", "2")
    assert points.users.latitude.tolist() == [11, 12]


def test_without_kinds_all_points_are_what_they_are_taken_for(tmp_path):
    points = read_points(write(tmp_path, "lat,lon\n1,2\n3,4\n"))
    assert len(points.sites) == len(points.users) == 2


def test_the_window_includes_its_border(tmp_path):
    points = read_points(write(tmp_path, "id,lat,lon\na,0,0\nb,1,1\nc,2,2\nd,1,3\n"))
    assert points.within((0, 1, 0, 1)).ids == ("a", "b")
    assert points.within((1, 2, 1, 3)).ids == ("b", "c", "d")
    assert len(points.within((5, 6, 5, 6))) == 0


@pytest.mark.parametrize(
    "window",
    [(1, 0, 0, 1), (0, 1, 1, 0), (-91, 0, 0, 1), (0, 1, 0, 181), (float("nan"), 1, 0, 1)],
)
def test_an_impossible_window_is_refused(tmp_path, window):
    points = read_points(write(tmp_path, "lat,lon\n1,2\n"))
    with pytest.raises(StagewiseError, match=r"window l.*: must be -"):
        points.within(window)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty: must have a line that names the columns"),
        ("\n\n", "is empty"),
        ("lat,x\n1,2\n", "line 1: columns 'lat, x': must have one longitude column"),
        ("lon\n1\n", r"must have one latitude column \(lat, latitude\), but has 0"),
        ("lat,latitude,lon\n1,1,2\n", "one latitude column .* but has 2"),
        ("id,site_id,lat,lon\n1,1,1,2\n", "one id column .* but has 2"),
        ("lat,lon\n1,2\nabc,2\n", "line 3: latitude = 'abc': must be a number of -90 to 90"),
        ("lat,lon\n1,\n", "line 2: longitude = '': must be a number"),
        ("lat,lon\nnan,2\n", "line 2: latitude = 'nan'"),
        ("lat,lon\n1,inf\n", "line 2: longitude = 'inf'"),
        ("lat,lon\n1_0,2\n", "line 2: latitude = '1_0'"),
        ("lat,lon\n90.5,2\n", "line 2: latitude = '90.5': must be a number of -90 to 90"),
        ("lat,lon\n1,-180.1\n", "line 2: longitude = '-180.1'"),
        ("lat,lon\n1\n", "line 2: has 1 columns: must have 2, as line 1"),
        ("lat,lon\n1,2,3\n", "line 2: has 3 columns"),
        ("lat,lon,id\n1,2,\n", "line 2: id = '': must not be empty"),
        ("lat,lon,id\n1,2,a\n\n3,4,a\n", "line 4: id = 'a': must not occur twice, .* line 2"),
        ("kind,id,lat,lon\nBS,1,1,2\nBS,1,3,4\n", "line 3: id = '1': must not occur twice"),
        ("kind,lat,lon\nbase,1,2\n", "line 2: kind = 'base': must be BS or USER"),
        (b"lat,lon\n1,2\n\xff\xfe,3\n", "line 3: byte 0xff: must be UTF-8 text"),
        ('lat,lon\n"1,2\n', "not valid CSV"),
        ("lat,lon\n1," + "9" * 200_000 + "\n", "not valid CSV|must be a number"),
    ],
)
def test_malformed_files_are_refused_by_line_and_rule(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(StagewiseError, match=message) as error:
        read_points(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StagewiseError, match=r"none.csv: cannot be read"):
        read_points(tmp_path / "none.csv")


@settings(max_examples=200)
@given(
    content=st.one_of(st.binary(max_size=80), st.text(alphabet='lat,on\n"1.-id \r\0', max_size=60))
)
def test_no_content_raises_anything_else(tmp_path_factory, content):
    path = write(tmp_path_factory.mktemp("any"), content)
    try:
        points = read_points(path)
    except StagewiseError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(points, Points)
