"""A regional hospital that the epidemic has hardly reached: almost no COVID-19."""

from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms, Scanner

SITE = HospitalSite(
    name="northern-valley",
    title="Northern Valley Hospital",
    films=Phantoms(
        case_mix={"normal": 110, "pneumonia": 90, "covid-19": 2, "tuberculosis": 20},
        scanner=Scanner(model="valley DX", modality="DX", bits=16, exposure=0.1, noise=0.015, collimation=0.05),
    ),
    settings=LocalSettings(epochs=1, batch_size=16, learning_rate=0.03),
)
