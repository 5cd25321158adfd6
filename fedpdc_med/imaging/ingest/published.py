"""Names and patient numbers that are public anyway, so that their pseudonyms may be the same at every site.

Those pseudonyms use a key that everyone has. A hospital's own number hashed with it could be found by trying all
numbers, so only names in exactly the published form count as published; all others get the site's key.
"""

import re
from urllib.parse import urlsplit

# Where the films of covid-chestxray-dataset were published: hosts, and one repository on GitHub.
_PUBLISHERS = (
    "academic.oup.com",
    "ajronline.org",
    "ajtmh.org",
    "ams.edu.sg",
    "ann-clinmicrob.biomedcentral.com",
    "app.figure1.com",
    "aurisnasuslarynx.com",
    "cases.rsna.org",
    "clinicalradiologyonline.net",
    "cureus.com",
    "en.wikipedia.org",
    "eurorad.org",
    "github.com/ml-workgroup/covid-19-image-repository",
    "heartrhythmcasereports.com",
    "jhltonline.org",
    "jkms.org",
    "journal.chestnet.org",
    "journalofhospitalinfection.com",
    "journals.lww.com",
    "kjronline.org",
    "link.springer.com",
    "mmrjournal.biomedcentral.com",
    "nature.com",
    "ncbi.nlm.nih.gov",
    "nejm.org",
    "onlinejcf.com",
    "onlinelibrary.wiley.com",
    "pubs.rsna.org",
    "rad2share.com",
    "radiologyassistant.nl",
    "radiopaedia.org",
    "sciencedirect.com",
    "sirm.org",
    "thelancet.com",
    "thno.org",
    "tropmedhealth.biomedcentral.com",
    "yxppt.com",
)
_COVID_CHESTXRAY_PATIENT = re.compile(r"\d{1,3}[a-z]?")  # the dataset numbers its patients
# In NIH ChestX-ray names the digits before the underscore are the patient's.
NIH_NAME = re.compile(r"(\d{8})_\d{3}")
# Names that darkcovidnet was published with: NIH's (its patients end at 30805), random numbers, and figures of papers.
DARKCOVIDNET_NAME = re.compile(
    r"000([0-2]\d{4}|30[0-7]\d\d|3080[0-5])_\d{3}"
    r"|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.annot\.original)?|(?=.*[a-f])([0-9a-f]{24}|[0-9a-f]{30}_jumbo)"
    r"|figure1-[0-9a-f]{24}-98-(left|right)"
    r"|(1-s2\.0-|1\.CXRCT|all14238-|auntminnie-|ciaa199\.|kjr-21-|jkms-35-|lancet-case|nCoV-radiol\.|nejmc\d{7}_|ryct\.\d)"
    r"[\w.-]*|covid-19-pneumonia-\d{1,2}(-day\d{1,2})?(-(pa|ap|l))?"
    r"|covid-19-(pneumonia-evolution|pneumonia-rapidly|rapidly-progressive|infection-exclusive)-[a-z\d-]*",
    re.IGNORECASE,
)
# Its largest class is numbered from 1 to 10192.
RADIOGRAPHY_NAME = re.compile(
    r"(covid|normal|viral pneumonia|lung_opacity)[ -]?(?P<open>\()?([1-9]\d{0,3}|10[01]\d\d)(?(open)\))", re.IGNORECASE
)


def is_covid_chestxray(patient: str, url: str) -> bool:
    """Whether a row in the layout of covid-chestxray-dataset is from that dataset."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    place = f"{parts.hostname}{parts.path}/".removeprefix("www.")
    return bool(_COVID_CHESTXRAY_PATIENT.fullmatch(patient)) and place.startswith(tuple(f"{p}/" for p in _PUBLISHERS))
