import math

from fedpdc_med.review.app import widgets as look


def test_markup_is_escaped_and_links_icons_and_addresses_are_broken():
    assert look.plain("**a** <b>") == r"\*\*a\*\* \<b\>"
    assert look.plain(":material/home:") == "\\:\u2060material/home\\:"
    assert look.plain("www.evil.test a@b.c") == "www\u2060\\.evil\\.test a@\u2060b\\.c"
    assert look.plain("two\n# lines") == r"two \# lines"


def test_figures_get_text_without_markup_and_long_names_are_cut():
    assert look.drawn("<b>x</b> & y") == "&lt;b&gt;x&lt;/b&gt; &amp; y"
    assert look.drawn("a" * 50, 10) == "a" * 9 + "…"


def test_numbers_read_as_a_clinician_expects():
    assert (look.share(0.899), look.share(math.nan)) == ("0.90", "not estimable")
    assert (look.signed(-0.001), look.signed(0.25), look.signed(-0.25)) == ("+0.00", "+0.25", "-0.25")
    assert (look.p_value(0.0004), look.p_value(0.0312)) == ("<0.001", "0.031")
    assert (look.count(1, "film"), look.count(1200, "film")) == ("1 film", "1,200 films")


def test_an_interval_never_seems_to_have_no_width():
    assert look.between(0.699, 0.972) == "0.70 to 0.97"
    assert look.between(0.0, 0.0038) == "0.000 to 0.004"
    assert look.between(math.nan, math.nan) == ""


def test_twenty_classes_have_twenty_looks():
    names = [f"class {k}" for k in range(20)]
    colours, dashes = look.class_colours(names), look.class_dashes(names)
    assert len({(colours[name], dashes[name]) for name in names}) == 20
