"""Hospital modules: the ones that come along, and errors that name the file and the field."""

import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import shipped
from fedpdc_med.hospitals.site import Phantoms, load_site, load_sites

HEAD = "from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms, Scanner\n"
GOOD = HEAD + "SITE = HospitalSite(name='a', films=Phantoms(case_mix={'normal': 3, 'covid-19': 1}))\n"


def module(folder, text, name="a.py"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_the_hospitals_that_come_along_differ_in_size_mix_and_scanner():
    sites = load_sites(shipped("sites"))
    taking_part = [site for site in sites if site.takes_part]
    assert len(taking_part) >= 6 and len(sites) > len(taking_part)
    mixes = {site.name: site.films.case_mix for site in sites if isinstance(site.films, Phantoms)}
    share = {name: mix["covid-19"] / sum(mix.values()) for name, mix in mixes.items()}
    assert min(share.values()) < 0.02 and max(share.values()) > 0.8
    sizes = [sum(mix.values()) for mix in mixes.values()]
    assert max(sizes) > 4 * min(sizes)
    assert len({site.films.scanner.model for site in sites}) == len(sites)
    assert any(site.films.ages == {"0-19": 1.0} for site in sites)


def test_a_hospital_with_real_films_names_its_store(tmp_path):
    site = load_site(module(tmp_path, HEAD + "SITE = HospitalSite(name='a', films='a-store')"))
    assert site.films == "a-store"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SITE = HospitalSite(name='A B', films='x')", "a.py, field 'name': a site's name may contain only"),
        ("SITE = HospitalSite(name='global', films='x')", "a.py, field 'name': a site cannot be called 'global'"),
        ("SITE = HospitalSite(name='reference', films='x')", "a.py, field 'name': a site cannot be called 'reference'"),
        ("SITE = HospitalSite(name='a')", "a.py, field 'films': Field required"),
        ("SITE = HospitalSite(name='a', films='x', colour=1)", "a.py, field 'colour': there is no such field"),
        ("SITE = HospitalSite(name='a', films='x', tilte='A')", "no such field; did you mean 'title'?"),
        (
            "SITE = HospitalSite(name='a', films=Phantoms(case_mix={'flu': 3}))",
            "a.py, field 'case_mix': there is no class 'flu'",
        ),
        ("SITE = HospitalSite(name='a', films=Phantoms(case_mix={'normal': -1}))", "'normal' has -1 films"),
        ("SITE = HospitalSite(name='a', films='x', settings=LocalSettings(epochs=0))", "a.py, field 'epochs' = 0"),
        ("SITE = HospitalSite(name='a', films=3)", "a.py, field 'films' = 3"),
        ("SITE = 3", "a.py must define SITE = HospitalSite"),
        ("site = 3", "a.py must define SITE = HospitalSite"),
        ("SITE = HospitalSite(", "a.py, line 2: not valid Python"),
        ("import nothing_of_this_name", "a.py cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_mistake_names_the_file_and_the_field(tmp_path, text, says):
    with pytest.raises(UserError) as error:
        load_site(module(tmp_path, HEAD + text))
    assert says in str(error.value)
    assert str(tmp_path) not in str(error.value)


def test_a_folder_without_modules_or_with_one_name_twice_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        load_sites(tmp_path / "nothing")
    with pytest.raises(UserError, match="no site file"):
        load_sites(tmp_path)
    module(tmp_path, GOOD)
    assert [site.name for site in load_sites(tmp_path)] == ["a"]
    module(tmp_path, GOOD, "b.py")
    with pytest.raises(UserError, match=r"b.py, field 'name': another site file already has the name 'a'"):
        load_sites(tmp_path)
