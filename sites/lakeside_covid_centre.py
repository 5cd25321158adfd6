"""An emergency centre of the epidemic: almost nothing but COVID-19, most films taken in bed (AP)."""

from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms, Scanner

SITE = HospitalSite(
    name="lakeside-covid-centre",
    title="Lakeside COVID-19 Centre",
    films=Phantoms(
        case_mix={"normal": 16, "pneumonia": 10, "covid-19": 180, "tuberculosis": 2},
        scanner=Scanner(
            model="lakeside mobile CR",
            modality="CR",
            bits=10,
            photometric="MONOCHROME1",
            noise=0.03,
            ap_share=0.9,
            tilt=4.0,
            marker="L",
        ),
    ),
    settings=LocalSettings(epochs=1, batch_size=16, learning_rate=0.03),
)
