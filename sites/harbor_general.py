"""A large city hospital: films of everything, but few of COVID-19 and fewer of tuberculosis."""

from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms, Scanner

SITE = HospitalSite(
    name="harbor-general",
    title="Harbor General Hospital",
    films=Phantoms(
        case_mix={"normal": 130, "pneumonia": 110, "covid-19": 30, "tuberculosis": 12},
        scanner=Scanner(model="harbor DX", modality="DX", bits=12, noise=0.012, ap_share=0.15, marker="R"),
    ),
    settings=LocalSettings(epochs=1, batch_size=16, learning_rate=0.03),
)
