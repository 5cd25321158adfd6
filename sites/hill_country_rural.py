"""A small rural hospital with an old machine; it trains a little longer on its few films."""

from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms, Scanner

SITE = HospitalSite(
    name="hill-country-rural",
    title="Hill Country Rural Hospital",
    films=Phantoms(
        case_mix={"normal": 24, "pneumonia": 14, "covid-19": 5, "tuberculosis": 4},
        scanner=Scanner(
            model="old CR",
            modality="CR",
            bits=8,
            exposure=-0.1,
            noise=0.04,
            blur=0.9,
            grid=0.02,
            tilt=4.0,
            shutter="white",
            collimation=0.04,
            ap_share=0.3,
        ),
        ages={"20-39": 0.2, "40-59": 0.3, "60-79": 0.4, "80+": 0.1},
    ),
    settings=LocalSettings(epochs=2, batch_size=8, learning_rate=0.03),
)
