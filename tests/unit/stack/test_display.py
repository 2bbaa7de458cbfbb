"""Test what is printed where the output is not a terminal."""

from stack import display


def test_progress_has_no_control_codes(capsys):
    with display.show_progress("working") as show:
        show(0, 2, "a")
        show(2, 2, "b")
    assert capsys.readouterr().out == "working: 0/2 a\nworking: 2/2 b\n"
