"""Test that blocks keep every line of a log."""

import pytest

from drydock.transfer.line_blocks import BLOCK_MAX_BYTES, build_blocks, find_piece_end, read_lines


def read_all(data: bytes) -> list[str]:
    return [line for block in build_blocks(data, 7) for line in read_lines(block.content)]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\n", ["one"]),
        (b"one", ["one"]),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\n\n three \n", ["one", " ", " three "]),
        (b"\n", [" "]),
        (b"caf\xe9 \xc3\xa9\n", ["caf\ufffd \u00e9"]),
        (b"\xff\n\xc3\nend\n", ["\ufffd", "\ufffd", "end"]),
        # Only a newline ends a line of a log.
        ("a\u2028b\x0bc\x85\n".encode(), ["a\u2028b\x0bc\x85"]),
    ],
)
def test_lines_come_back(data: bytes, lines: list[str]) -> None:
    assert read_all(data) == lines
    (block,) = build_blocks(data, 7)
    assert (block.timestamp, block.line_count) == (7, len(lines))


@pytest.mark.parametrize("length", [1, 7, BLOCK_MAX_BYTES - 1, BLOCK_MAX_BYTES, BLOCK_MAX_BYTES + 1])
def test_many_lines_are_several_blocks(length: int) -> None:
    lines = [f"{number:0{length}}"[:length] for number in range(200_000 // length + 3)]
    data = "".join(f"{line}\n" for line in lines).encode()
    blocks = build_blocks(data, 7)
    assert len(blocks) > 1 and max(block.byte_count for block in blocks) <= BLOCK_MAX_BYTES
    # A line that is longer than a block is cut.
    assert "".join(read_all(data)) == "".join(lines)
    assert length > BLOCK_MAX_BYTES or read_all(data) == lines
    assert [block.line_count for block in blocks] == [len(read_lines(block.content)) for block in blocks]


def test_long_line_is_cut_between_characters() -> None:
    text = "a" + "\u00e9\u20ac\U0001f600" * 30_000
    assert "".join(read_all(text.encode() + b"\n")) == text
    assert find_piece_end(b"\x80" * 10, 8) == 8  # no character at all
