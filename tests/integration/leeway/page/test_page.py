"""Test Leeway's page in a real browser: who sees what, every view, and every action."""


def test_page_is_in_the_navigation(open_page):
    page = open_page("vera")
    page.get_by_text("Leeway").first.wait_for()
