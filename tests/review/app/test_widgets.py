import math

from fedpdc_med.common.description import between, count, p_value, signed, two_decimals
from fedpdc_med.review.app.widgets import plain


def test_markup_is_escaped_and_links_icons_and_addresses_are_broken():
    assert plain("**a** <b>") == r"\*\*a\*\* \<b\>"
    assert plain(":material/home:") == "\\:\u2060material/home\\:"
    assert plain("www.evil.test a@b.c") == "www\u2060\\.evil\\.test a@\u2060b\\.c"
    assert plain("two\n# lines") == r"two \# lines"


def test_numbers_read_as_a_clinician_expects():
    assert (two_decimals(0.899), two_decimals(math.nan)) == ("0.90", "not estimable")
    assert (signed(-0.001), signed(0.25), signed(-0.25)) == ("+0.00", "+0.25", "-0.25")
    assert (p_value(0.0004), p_value(0.0312)) == ("<0.001", "0.031")
    assert (count(1, "film"), count(1200, "film")) == ("1 film", "1,200 films")


def test_an_interval_never_seems_to_have_no_width():
    assert between(0.699, 0.972) == "0.70 to 0.97"
    assert between(0.0, 0.0038) == "0.000 to 0.004"
    assert between(math.nan, math.nan) == ""
